import { randomBytes } from 'node:crypto';
import { addressesModel } from '#src/domain/embedded-instructions.ts';
import { toStorable } from '#src/domain/plain-text.ts';
import type { TokenCounter } from '#src/domain/tokens.ts';
import { foundPassagesMessage, resultPreview, toolResultMessage } from '#src/domain/tool-results.ts';
import type { Citing } from './citer.ts';
import type { FoundPassages, ToolOutput } from './round-tools.ts';

/** More of one result distracts a model more than it tells. */
const resultCharacters = 8_000;
/** As much as a search finds, of which each can be cited. */
const passageCharacters = 14_000;

export type ToldResult = {
  /** What the model reads. */
  message: string;
  preview: string;
  characters: number;
  /** What of it was written by others, whole. */
  texts: string[];
};

/** Writes what tools gave for the model, in no more tokens than there are for it. */
export function createToolTeller(deps: { tokenCounter: TokenCounter; citing: Pick<Citing, 'add'> }) {
  const { tokenCounter, citing } = deps;

  function shortened(characters: number, tokens: number, message: (characters: number) => string): string {
    let length = characters;
    while (length > 0 && tokenCounter.count(message(length)) > tokens) length = Math.floor(length / 2);
    return message(length);
  }

  function tellText(tool: string, output: string, tokens: number): ToldResult {
    const text = toStorable(output);
    const nonce = nonceOfResult();
    const write = (characters: number) => toolResultMessage(tool, cutTo(text, characters), nonce);
    const message = shortened(resultCharacters, tokens, write);
    return { message, preview: resultPreview(text), characters: text.length, texts: [text] };
  }

  function tellPassages({ chunks, note }: FoundPassages, tokens: number): ToldResult {
    const nonce = nonceOfResult();
    const numbers = citing.add(chunks);
    const passages = chunks.map(({ documentName, pageNumber, content }, index) => ({
      number: numbers[index] ?? 0,
      documentName,
      pageNumber,
      text: content,
      addressesModel: addressesModel(`${documentName}\n${content}`),
    }));
    const write = (characters: number) =>
      foundPassagesMessage(
        passages.map((passage) => ({ ...passage, text: cutTo(passage.text, Math.floor(characters / chunks.length)) })),
        note(numbers),
        nonce,
      );
    return {
      message: shortened(passageCharacters, tokens, write),
      preview: `Passages ${numbers.join(', ')}`,
      characters: chunks.reduce((sum, { content }) => sum + content.length, 0),
      texts: chunks.map(({ content }) => content),
    };
  }

  return (tool: string, output: ToolOutput, tokens: number): ToldResult =>
    typeof output === 'string' ? tellText(tool, output, tokens) : tellPassages(output, tokens);
}

/** The mark tells the model that there was more. */
export function cutTo(text: string, characters: number): string {
  return text.length <= characters ? text : `${text.slice(0, characters).toWellFormed()} […]`;
}

function nonceOfResult(): string {
  return randomBytes(8).toString('hex');
}
