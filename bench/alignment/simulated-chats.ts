import type { ClincAgent } from '../../scripts/alignment/clinc.ts';
import {
  type AlignmentState,
  alignmentStateAfterRound,
  initialAlignmentState,
  isDriftState,
} from '../../src/domain/alignment/chat-state.ts';
import type { AlignmentCalibration } from '../../src/domain/alignment/score.ts';
import { type Random, seededRandom } from '../search/random.ts';
import type { Report } from './figures.ts';
import { scoreOf } from './topics.ts';

const thresholds = { offTopic: 3, onTopic: 2 };
const chats = 3_000;
/** Probability that the agent follows a user who leaves the topic. */
const follows = 0.7;
/** A simulated chat ends after this many rounds, and counts as drifted there. */
const longestChat = 3_000;
const segments = 6;
const segmentRounds = { from: 8, to: 16 };

type Pools = { on: number[]; off: number[] };

/** Simulates chats of independent draws from the scores of CLINC150, folded as the product folds them. */
export function simulateChats(agents: readonly ClincAgent[], calibration: AlignmentCalibration): Report {
  const random = seededRandom(7);
  const scored = agents.flatMap(({ utterances }) =>
    utterances.map((each) => ({ isPositive: each.isPositive, score: scoreOf(each, calibration) })),
  );
  const poolOf = (isPositive: boolean) =>
    scored.filter((each) => each.isPositive === isPositive).map(({ score }) => score);
  const pools = { on: poolOf(true), off: poolOf(false) };
  const switches = alternate(pools, random);
  return {
    title: 'Simulated chats: draws from the scores of CLINC150',
    figures: [
      { name: 'rounds of a user on topic until a false alarm', value: untilFalseAlarm(pools, random), atLeast: 200 },
      { name: 'rounds from a switch to a drift', value: delayAfterSwitch(pools, random), atMost: 3.2 },
      { name: 'false drifts in 100 rounds on topic', value: switches.falseEntries, atMost: 1.5 },
      { name: 'rounds from the way back to the end of the drift', value: switches.recovery },
      { name: 'segments off topic that are noticed', value: switches.noticed },
      { name: 'transitions of a chat with five switches', value: switches.transitions },
    ],
    lines: [
      `${chats} chats each; an agent follows its user off topic in ${100 * follows} % of the rounds. Segments of ${segmentRounds.from} to ${segmentRounds.to} rounds.`,
    ],
  };
}

function draw(pool: readonly number[], random: Random): number {
  return pool[random.below(pool.length)] ?? 0;
}

function next(state: AlignmentState, isOn: boolean, pools: Pools, random: Random): AlignmentState {
  const isAgentOn = isOn || random.next() >= follows;
  const scores = {
    user: draw(isOn ? pools.on : pools.off, random),
    agent: draw(isAgentOn ? pools.on : pools.off, random),
  };
  return alignmentStateAfterRound(state, { ...scores, neutral: false, refusal: false }, thresholds);
}

/**
 * Average run length until a false alarm, as control charts are compared. It depends on the user's messages only: each
 * reply has the score of its question.
 */
function untilFalseAlarm(pools: Pools, random: Random): number {
  return average(chats, () => {
    let state = initialAlignmentState;
    let rounds = 0;
    while (!isDriftState(state.state) && rounds < longestChat) {
      const score = draw(pools.on, random);
      state = alignmentStateAfterRound(
        state,
        { user: score, agent: score, neutral: false, refusal: false },
        thresholds,
      );
      rounds += 1;
    }
    return rounds;
  });
}

/**
 * Rounds until drift is detected, if the user leaves the topic after ten rounds; chats that drift before are left out.
 */
function delayAfterSwitch(pools: Pools, random: Random): number {
  return average(chats, () => {
    for (;;) {
      let state = initialAlignmentState;
      for (let round = 0; round < 10; round++) state = next(state, true, pools, random);
      if (isDriftState(state.state)) continue;
      let delay = 0;
      while (!isDriftState(state.state)) {
        state = next(state, false, pools, random);
        delay += 1;
      }
      return delay;
    }
  });
}

function alternate(pools: Pools, random: Random) {
  const counted = {
    onRounds: 0,
    falseEntries: 0,
    recoveries: 0,
    recoveryRounds: 0,
    offSegments: 0,
    noticed: 0,
    transitions: 0,
  };
  for (let chat = 0; chat < chats; chat++) {
    let state = initialAlignmentState;
    for (let segment = 0; segment < segments; segment++) {
      const isOn = segment % 2 === 0;
      const length = segmentRounds.from + random.below(segmentRounds.to - segmentRounds.from + 1);
      let isRecovering = isOn && isDriftState(state.state);
      let isNoticed = false;
      for (let round = 1; round <= length; round++) {
        const before = isDriftState(state.state);
        state = next(state, isOn, pools, random);
        const after = isDriftState(state.state);
        if (before !== after) counted.transitions += 1;
        if (isOn) counted.onRounds += 1;
        if (isOn && !before && after) counted.falseEntries += 1;
        if (isRecovering && !after) {
          counted.recoveries += 1;
          counted.recoveryRounds += round;
          isRecovering = false;
        }
        isNoticed ||= after;
      }
      if (!isOn) counted.offSegments += 1;
      if (!isOn && isNoticed) counted.noticed += 1;
    }
  }
  return {
    falseEntries: (100 * counted.falseEntries) / counted.onRounds,
    recovery: counted.recoveryRounds / counted.recoveries,
    noticed: counted.noticed / counted.offSegments,
    transitions: counted.transitions / chats,
  };
}

function average(times: number, measure: () => number): number {
  return Array.from({ length: times }, measure).reduce((sum, value) => sum + value, 0) / times;
}
