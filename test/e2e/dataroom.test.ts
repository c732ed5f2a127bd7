import { itServesTheDataroom } from '#test/support/dataroom-story.ts';
import { startStack } from '#test/support/stack.ts';

describe('the dataroom, with originals in files', () => {
  itServesTheDataroom((settings) => startStack(settings));
});
