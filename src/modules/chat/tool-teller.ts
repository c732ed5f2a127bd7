import { randomBytes } from 'node:crypto';
import { foundPassagesMessage, resultPreview, toolResultMessage } from '#src/domain/chat/context-blocks.ts';
import { addressesModel } from '#src/domain/chat/embedded-instructions.ts';
import { toStorable } from '#src/domain/text/plain-text.ts';
import type { TokenCounter } from '#src/domain/text/tokens.ts';
import type { Citing } from './citer.ts';
import type { FoundPassages, ToolOutput } from './round-tools.ts';

/** More of one result distracts a model more than it tells. */
const resultCharacters = 8_000;
/** As much as a search finds, of which each can be cited. */
const passageCharacters = 14_000;

/** Less of one passage says nothing that an answer could rest on. */
const leastPassageCharacters = 200;
/** Of passages in one answer: takes as many tokens as any. */
const widestNumber = 999;
const noRoom = 'There is no room for what the tool gave: answer with what there is.';

export type ToldResult = {
  /** What the model reads. */
  message: string;
  preview: string;
  /** Of all that the tool gave. */
  characters: number;
  /** What the model may have read of it, as others have written it. */
  texts: string[];
};

/** Writes what tools gave for the model, in no more tokens than there are for it; in a line of ours where none would do. */
export function createToolTeller(deps: { tokenCounter: TokenCounter; citing: Pick<Citing, 'add'> }) {
  const { tokenCounter, citing } = deps;

  /** With how many characters of its texts a message fits; null where not even the least do. */
  function fitting(most: number, least: number, tokens: number, message: (characters: number) => string) {
    for (let characters = most; characters >= least; characters = Math.floor(characters / 2)) {
      if (tokenCounter.count(message(characters)) <= tokens) return characters;
    }
    return null;
  }

  function tellText(tool: string, output: string, tokens: number): ToldResult {
    // Nobody reads the rest, and to look at all of it takes long.
    const text = cutTo(toStorable(output.slice(0, resultCharacters + 1)), resultCharacters);
    const nonce = nonceOfResult();
    const write = (characters: number) => toolResultMessage(tool, cutTo(text, characters), nonce);
    const characters = fitting(resultCharacters, 1, tokens, write);
    return {
      message: characters === null ? noRoom : write(characters),
      preview: resultPreview(text),
      characters: output.length,
      texts: characters === null ? [] : [text],
    };
  }

  function tellPassages({ chunks, note }: FoundPassages, tokens: number): ToldResult {
    const nonce = nonceOfResult();
    const passages = chunks.map(({ documentName, pageNumber, content }) => {
      return { documentName, pageNumber, content, addressesModel: addressesModel(`${documentName}\n${content}`) };
    });
    const write = (numbers: readonly number[], characters: number) => {
      const told = passages.slice(0, numbers.length).map(({ content, ...passage }, index) => {
        const text = cutTo(content, Math.floor(characters / numbers.length));
        return { ...passage, text, number: numbers[index] ?? 0 };
      });
      return foundPassagesMessage(told, note(numbers), nonce);
    };
    const { count, characters } = room(chunks.length, tokens, write);
    // Only what is told has a number.
    const numbers = citing.add(chunks.slice(0, count));
    return {
      message: count === 0 ? noRoom : write(numbers, characters),
      preview: resultPreview(previewOf(chunks.slice(0, count))),
      characters: chunks.reduce((sum, { content }) => sum + content.length, 0),
      texts: chunks.slice(0, count).flatMap(({ documentName, content }) => [documentName, content]),
    };
  }

  /** How many passages fit: all are cut, and then the last ones left out, which fit the search least. */
  function room(most: number, tokens: number, write: (numbers: readonly number[], characters: number) => string) {
    for (let count = most; count > 0; count -= 1) {
      const numbers = Array<number>(count).fill(widestNumber);
      const least = leastPassageCharacters * count;
      const characters = fitting(passageCharacters, least, tokens, (length) => write(numbers, length));
      if (characters !== null) return { count, characters };
    }
    return { count: 0, characters: 0 };
  }

  return (tool: string, output: ToolOutput, tokens: number): ToldResult =>
    typeof output === 'string' ? tellText(tool, output, tokens) : tellPassages(output, tokens);
}

/** By their ids: their numbers were those of the prompt, and their names and texts are for who may read them. */
function previewOf(chunks: readonly { documentId: string }[]): string {
  if (chunks.length === 0) return noRoom;
  const ids = new Set(chunks.map(({ documentId }) => documentId));
  return `${chunks.length} passages of ${[...ids].join(', ')}`;
}

/** The mark tells the model that there was more. */
export function cutTo(text: string, characters: number): string {
  return text.length <= characters ? text : `${text.slice(0, characters).toWellFormed()} […]`;
}

function nonceOfResult(): string {
  return randomBytes(8).toString('hex');
}
