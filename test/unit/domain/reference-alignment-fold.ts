/** The state machine as its simulation ran it, kept word for word as the oracle of the fold's tests. */
export type ReferenceState = {
  A: number;
  E: number;
  ul: 0 | 1;
  al: 0 | 1;
  off: number;
  on: number;
  aoff: number;
  rec: number;
  armed: boolean;
  fsm: string;
  shown: string;
};

export const initialReferenceState: ReferenceState = {
  A: 1,
  E: 100,
  ul: 1,
  al: 1,
  off: 0,
  on: 0,
  aoff: 0,
  rec: 0,
  armed: true,
  fsm: 'stable',
  shown: 'stable',
};

const lab = (a: number, prev: 0 | 1): 0 | 1 => (a >= 0.5 ? 1 : a < 0.35 ? 0 : prev);

export function referenceStep(
  S: ReferenceState,
  r: { au: number; ag: number; neutral: boolean; refusal: boolean },
  K: { off: number; on: number },
): ReferenceState {
  const A = r.neutral ? S.A : r.refusal ? r.au : 0.5 * r.au + 0.5 * r.ag;
  const E = 30 * A + 0.7 * S.E;
  let { off, on, aoff, rec, armed, fsm } = S;
  const ul = r.neutral ? S.ul : lab(r.au, S.ul);
  const al = r.refusal ? 1 : lab(r.ag, S.al);
  if (!r.neutral) {
    if (ul) {
      on++;
      rec++;
      off = 0;
    } else {
      off++;
      on = rec = 0;
    }
  }
  aoff = al ? 0 : aoff + 1;
  if (E >= 65) armed = true;
  const U = off >= K.off;
  const G = aoff >= 2 && ul === 1;
  const X = armed && E < 45;
  if (fsm === 'stable' || fsm === 'watch') {
    fsm = U || (X && !ul) ? 'drift_user' : G || (X && ul) ? 'drift_agent' : off || aoff || E < 65 ? 'watch' : 'stable';
    if (fsm.startsWith('drift_')) rec = 0;
  } else if (ul && al) {
    if (rec >= K.on && E >= 45) {
      fsm = E >= 65 ? 'stable' : 'watch';
      armed = E >= 65;
      off = aoff = 0;
    } else fsm = 'drift_recovering';
  } else fsm = !ul ? 'drift_user' : G || fsm === 'drift_agent' ? 'drift_agent' : 'drift_recovering';
  return { A, E, ul, al, off, on, aoff, rec, armed, fsm, shown: r.refusal ? 'refusal' : fsm };
}
