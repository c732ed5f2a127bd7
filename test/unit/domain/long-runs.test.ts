import { newTopicAfterTopicSwitch } from '#src/domain/alignment/round.ts';
import { sentenceBeforeCitationMarker, splitReplyIntoStatements } from '#src/domain/chat/citation-markers.ts';
import { parseMarkdownBlocks } from '#src/domain/documents/markdown.ts';
import { splitSentences } from '#src/domain/text/words.ts';

/** Quadratic work on any of these takes minutes, so that the runner's time limit fails the test. */
describe('texts that repeat a few characters 100,000 times', () => {
  const runs = [
    ...['.', '.)', '。', '# a ', '# [', '|', '- ', '[1] ', '."', '_', '\n', '\r'],
    ...['forget ', 'ok drop ', 'please ', "let's "],
  ];
  const readers = {
    parseMarkdownBlocks,
    splitSentences,
    splitReplyIntoStatements,
    sentenceBeforeCitationMarker,
    newTopicAfterTopicSwitch,
  };
  for (const [name, read] of Object.entries(readers)) {
    it(`take linear time in ${name}`, () => {
      for (const run of runs) read(`${run.repeat(100_000)}x`);
    });
  }

  it('take linear time if the characters are white space in a request to change the topic or in a heading', () => {
    for (const begun of ['leave', 'leave about', 'leave it', 'leave it and'].map((text) => `please ${text}`)) {
      for (const space of [' ', '\t\n']) newTopicAfterTopicSwitch(`${begun}${space.repeat(100_000)}x`);
    }
    newTopicAfterTopicSwitch(`let's talk to${' '.repeat(100_000)}x`);
    parseMarkdownBlocks(`# a${' '.repeat(100_000)}b`);
  });
});
