import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export type LabelledRound = {
  user: string;
  userTopic: 'on' | 'off' | 'neutral';
  agent: string;
  agentTopic: 'on' | 'off' | 'neutral' | 'refusal';
  /** Whether the conversation has drifted off its topic by this round. */
  drift: boolean;
};

export type DialogueAgent = { name: string; persona: string; anchors: Record<string, number> };
export type Dialogue = { agent: DialogueAgent; script: string; rounds: LabelledRound[] };

/** Reads labelled dialogues; dialogues/README.md defines the labels. No rule may be tuned on `held-out-dialogues`. */
export function readDialogues(set: 'dialogues' | 'held-out-dialogues'): Dialogue[] {
  const folder = join(import.meta.dirname, set);
  return readdirSync(folder)
    .filter((name) => name.endsWith('.json'))
    .flatMap((name) => {
      const file: { agent: DialogueAgent; dialogues: Omit<Dialogue, 'agent'>[] } = JSON.parse(
        readFileSync(join(folder, name), 'utf8'),
      );
      return file.dialogues.map((dialogue) => ({ ...dialogue, agent: file.agent }));
    });
}
