"""System shared memory as Triton's public examples and checks use it, over both protocols."""

import os

import numpy
import pytest
import tritonclient.utils.shared_memory as shm
from triton_wire import check_sums, inputs, outputs, summands
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

BYTES = 16 * 4


class Regions:
    """Regions of this test, with keys that no other process has."""

    def __init__(self, client):
        self.client = client
        self.handles = {}

    def add(self, name, byte_size, content=None, register=True):
        key = f"/millrace_{os.getpid()}_{name}"
        self.handles[name] = shm.create_shared_memory_region(name, key, byte_size)
        if content is not None:
            shm.set_shared_memory_region(self.handles[name], content)
        if register:
            self.client.register_system_shared_memory(name, key, byte_size)
        return key

    def read(self, name, dtype, shape):
        return shm.get_contents_as_numpy(self.handles[name], dtype, shape)

    def close(self):
        self.client.unregister_system_shared_memory()
        for handle in self.handles.values():
            shm.destroy_shared_memory_region(handle)


@pytest.fixture
def regions(wire):
    wire.client.unregister_system_shared_memory()
    regions = Regions(wire.client)
    yield regions
    regions.close()


def names_of(wire):
    status = wire.client.get_system_shared_memory_status()
    return [row["name"] for row in status] if wire.name == "http" else list(status.regions)


def shape_and_type(wire, output):
    return (output["shape"], output["datatype"]) if wire.name == "http" else (list(output.shape), output.datatype)


def in_memory(wire, name, datatype, shape, region, byte_size, offset=0):
    tensor = wire.module.InferInput(name, shape, datatype)
    tensor.set_shared_memory(region, byte_size, offset=offset)
    return tensor


def test_both_inputs_in_one_region_and_both_outputs_in_another(wire, regions):
    arrays = summands()
    regions.add("input_data", 2 * BYTES, [arrays["INPUT0"], arrays["INPUT1"]])
    regions.add("output_data", 2 * BYTES)
    tensors = [
        in_memory(wire, "INPUT0", "INT32", [1, 16], "input_data", BYTES),
        in_memory(wire, "INPUT1", "INT32", [1, 16], "input_data", BYTES, offset=BYTES),
    ]
    wanted = outputs(wire.module, "OUTPUT0", "OUTPUT1")
    wanted[0].set_shared_memory("output_data", BYTES)
    wanted[1].set_shared_memory("output_data", BYTES, offset=BYTES)
    result = wire.client.infer("simple", tensors, outputs=wanted)
    assert shape_and_type(wire, result.get_output("OUTPUT0")) == ([1, 16], "INT32")
    sums, differences = regions.read("output_data", numpy.int32, [2, 16])
    numpy.testing.assert_array_equal(sums, (arrays["INPUT0"] + arrays["INPUT1"])[0])
    numpy.testing.assert_array_equal(differences, (arrays["INPUT0"] - arrays["INPUT1"])[0])
    assert sorted(names_of(wire)) == ["input_data", "output_data"]


def test_texts(wire, regions):
    texts = {
        "INPUT0": numpy.array([[str(i).encode() for i in range(16)]], object),
        "INPUT1": numpy.array([[b"1"] * 16], object),
    }
    tensors = []
    for name, array in texts.items():
        content = serialize_byte_tensor(array)
        size = len(content.item())
        regions.add(name.lower(), size, [content])
        tensors.append(in_memory(wire, name, "BYTES", [1, 16], name.lower(), size))
    wanted = outputs(wire.module, "OUTPUT0", "OUTPUT1")
    for output in wanted:
        regions.add(output.name().lower(), 1024)
        output.set_shared_memory(output.name().lower(), 1024)
    wire.client.infer("simple_string", tensors, outputs=wanted)
    assert [int(text) for text in regions.read("output0", numpy.object_, [16])] == [i + 1 for i in range(16)]
    assert [int(text) for text in regions.read("output1", numpy.object_, [16])] == [i - 1 for i in range(16)]


def test_the_same_objects_with_and_without_memory(wire, regions):
    arrays = summands()
    for name, array in arrays.items():
        regions.add(name, BYTES, [array])
    for name in ("OUTPUT0", "OUTPUT1"):
        regions.add(name, BYTES)
    tensors = inputs(wire.module, arrays)
    wanted = outputs(wire.module, "OUTPUT0", "OUTPUT1")
    for shared in (True, False, True, False):
        for tensor, array in zip(tensors, arrays.values()):
            tensor.set_shared_memory(tensor.name(), BYTES) if shared else tensor.set_data_from_numpy(array)
        for output in wanted:
            output.set_shared_memory(output.name(), BYTES) if shared else output.unset_shared_memory()
        result = wire.client.infer("simple", tensors, outputs=wanted)
        if shared:
            sums = regions.read("OUTPUT0", numpy.int32, [1, 16])
            numpy.testing.assert_array_equal(sums, arrays["INPUT0"] + arrays["INPUT1"])
        else:
            check_sums(result, arrays)


def test_one_input_in_memory_and_one_in_the_request(wire, regions):
    arrays = summands()
    regions.add("input_data", BYTES, [arrays["INPUT0"]])
    tensors = inputs(wire.module, arrays)
    tensors[0].set_shared_memory("input_data", BYTES)
    check_sums(wire.client.infer("simple", tensors), arrays)


def test_a_region_is_gone_after_it_was_unregistered(wire, regions):
    regions.add("input_data", BYTES, [summands()["INPUT0"]])
    wire.client.unregister_system_shared_memory("input_data")
    assert names_of(wire) == []
    tensors = inputs(wire.module, summands())
    tensors[0].set_shared_memory("input_data", BYTES)
    with pytest.raises(InferenceServerException, match="input_data"):
        wire.client.infer("simple", tensors)


def test_unregistering_what_is_not_there_is_no_mistake(wire, regions):
    regions.add("input_data", BYTES, register=False)
    wire.client.unregister_system_shared_memory("input_data")
    assert names_of(wire) == []


def test_a_second_registration_is_refused(wire, regions):
    key = regions.add("input_data", BYTES)
    with pytest.raises(InferenceServerException, match="input_data"):
        wire.client.register_system_shared_memory("input_data", key, BYTES)
    assert names_of(wire) == ["input_data"]


@pytest.mark.parametrize(
    "byte_size, offset",
    [(BYTES * 2, 0), (BYTES, BYTES), (BYTES, 2**62), (2**62, 0)],
    ids=["too long", "behind the end", "offset that overflows", "size that overflows"],
)
def test_what_lies_outside_the_region_is_refused(wire, regions, byte_size, offset):
    regions.add("input_data", BYTES, [summands()["INPUT0"]])
    tensors = inputs(wire.module, summands())
    tensors[0].set_shared_memory("input_data", byte_size, offset=offset)
    with pytest.raises(InferenceServerException):
        wire.client.infer("simple", tensors)
    check_sums(wire.client.infer("simple", inputs(wire.module, summands())), summands())


def test_an_output_that_does_not_fit_is_refused(wire, regions):
    regions.add("output_data", BYTES)
    wanted = outputs(wire.module, "OUTPUT0")
    wanted[0].set_shared_memory("output_data", BYTES // 2)
    with pytest.raises(InferenceServerException):
        wire.client.infer("simple", inputs(wire.module, summands()), outputs=wanted)


def test_memory_that_is_not_there_cannot_be_registered(wire):
    with pytest.raises(InferenceServerException, match="nothing"):
        wire.client.register_system_shared_memory("nothing", "/millrace_no_such_memory", BYTES)


def test_a_region_larger_than_its_memory_cannot_be_registered(wire, regions):
    key = regions.add("input_data", BYTES, register=False)
    for byte_size, offset in ((4 * 4096, 0), (4096, 4 * 4096), (2**40, 0)):
        with pytest.raises(InferenceServerException):
            wire.client.register_system_shared_memory("input_data", key, byte_size, offset=offset)
    assert names_of(wire) == []


@pytest.mark.parametrize("key", ["", "/", "/../etc/passwd", "/a/b", ".."])
def test_a_key_that_is_a_path_is_refused(wire, key):
    with pytest.raises(InferenceServerException):
        wire.client.register_system_shared_memory("odd", key, BYTES)


def test_cuda_memory_is_refused_with_a_reason(wire):
    with pytest.raises(InferenceServerException) as refusal:
        wire.client.register_cuda_shared_memory("cuda", b"aGFuZGxl" * 11, 0, BYTES)
    assert refusal.value.message()
