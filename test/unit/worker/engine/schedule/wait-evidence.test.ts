import { describe, expect, it } from 'vitest';
import { LONELY_WAITS, WaitEvidence } from '../../../../../worker/engine/schedule/wait-evidence.ts';

const DELAY_MS = 10;

function impatient(): WaitEvidence {
  const evidence = new WaitEvidence(DELAY_MS);
  for (let i = 0; i < LONELY_WAITS; i += 1) evidence.noteRelease(1, 'delay', DELAY_MS);
  return evidence;
}

describe('WaitEvidence', () => {
  it('begins by waiting', () => {
    expect(new WaitEvidence(DELAY_MS).patient).toBe(true);
  });

  it('stops waiting after enough lonely waits in a row', () => {
    const evidence = new WaitEvidence(DELAY_MS);
    for (let i = 1; i < LONELY_WAITS; i += 1) evidence.noteRelease(1, 'delay', DELAY_MS);
    expect(evidence.patient).toBe(true);
    evidence.noteRelease(1, 'delay', DELAY_MS);
    expect(evidence.patient).toBe(false);
  });

  it('goes on waiting where the last wait brought company', () => {
    const evidence = new WaitEvidence(DELAY_MS);
    for (let i = 1; i < LONELY_WAITS; i += 1) evidence.noteRelease(1, 'delay', DELAY_MS);
    evidence.noteArrival('', 100, false);
    evidence.noteArrival('', 105, true);
    evidence.noteRelease(2, 'delay', DELAY_MS);
    evidence.noteRelease(1, 'delay', DELAY_MS);
    expect(evidence.patient).toBe(true);
  });

  it('waits again as soon as a request comes while another is open', () => {
    const evidence = impatient();
    evidence.noteArrival('', 100, false);
    evidence.noteArrival('', 109, true);
    expect(evidence.patient).toBe(true);
  });

  it('takes no request for company that came after the delay, or after the other was answered, or of another shape', () => {
    const evidence = impatient();
    evidence.noteArrival('a', 100, false);
    evidence.noteArrival('a', 110, true);
    evidence.noteArrival('a', 111, false);
    evidence.noteArrival('b', 112, true);
    expect(evidence.patient).toBe(false);
  });

  it('learns nothing from batches that did not wait', () => {
    const evidence = new WaitEvidence(DELAY_MS);
    for (let i = 0; i < 2 * LONELY_WAITS; i += 1) evidence.noteRelease(1, 'full', 0);
    expect(evidence.patient).toBe(true);
  });
});
