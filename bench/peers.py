"""Runs the peers comparison with one entry more: Millrace as producer + worker over Redis (`millrace-queue`).

usage: python bench/peers.py PEERS_DIR [options of PEERS_DIR/run.py]
"""
import os
import shlex
import sys

PEERS = os.path.abspath(sys.argv.pop(1))
sys.path.insert(0, PEERS)
import run  # noqa: E402
import servers  # noqa: E402


def queue_commands(ctx):
    main = shlex.split(ctx.millrace_cmd)[:2]  # node dist/cli/main.js
    redis = ["--redis", f"redis://127.0.0.1:{ctx.redis_port}", "--allow-metrics=false"]
    repository = os.path.join(ctx.work, "repository")
    return [
        servers.redis_command(ctx),
        main + ["worker", "--model-repository", repository] + redis,
        main + ["producer", "--http-port", str(ctx.port)] + redis,
    ]


millrace = servers.BY_NAME["millrace"]
queue = servers.Server(
    "millrace-queue", queue_commands, millrace.path, millrace.wire, millrace.ready, millrace.prepare,
    note="ours: producer, Redis and one worker")
servers.SERVERS.append(queue)
servers.BY_NAME[queue.name] = queue

if __name__ == "__main__":
    run.main()
