import { newTopicAfterTopicSwitch } from '#src/domain/alignment/round.ts';
import { sentenceBeforeCitationMarker, splitReplyIntoStatements } from '#src/domain/chat/citation-markers.ts';
import { parseMarkdownBlocks } from '#src/domain/documents/markdown.ts';
import { splitSentences } from '#src/domain/text/words.ts';

/** Quadratic work on any of these takes minutes, so that the runner's own time limit fails the test. */
const runs = [
  '.',
  '.)',
  '。',
  '# a ',
  '# [',
  '|',
  '- ',
  '[1] ',
  '."',
  '_',
  '\n',
  '\r',
  'forget ',
  'ok drop ',
  'please ',
  "let's ",
];

describe('texts that repeat one thing 100,000 times', () => {
  for (const run of runs) {
    it(`are read: ${JSON.stringify(run)}`, () => {
      const text = run.repeat(100_000);
      for (const read of [
        parseMarkdownBlocks,
        splitSentences,
        splitReplyIntoStatements,
        sentenceBeforeCitationMarker,
        newTopicAfterTopicSwitch,
      ])
        read(`${text}x`);
    });
  }

  for (const begun of [
    'please leave',
    'please leave about',
    'please leave it',
    'please leave it and',
    "let's talk to",
  ]) {
    it(`are read: white space after "${begun}"`, () => {
      for (const space of [' ', '\t\n']) newTopicAfterTopicSwitch(`${begun}${space.repeat(100_000)}x`);
    });
  }

  it('are read: white space inside a heading', () => {
    parseMarkdownBlocks(`# a${' '.repeat(100_000)}b`);
  });
});
