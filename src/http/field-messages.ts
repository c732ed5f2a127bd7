import type { z } from 'zod';

const kinds: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
};

const units: Readonly<Record<string, string>> = { string: ' characters', array: ' items', record: ' entries' };

/**
 * What is wrong with a field, in words that go on from its name: "limit: must be at most 100". A field with words of
 * its own keeps them.
 */
export function fieldMessage(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      if (issue.input === undefined) return 'is required';
      return `must be ${kinds[issue.expected] ?? issue.expected}`;
    case 'too_small':
      return `must ${have(issue.origin)}at least ${issue.minimum}${units[issue.origin] ?? ''}`;
    case 'too_big':
      return `must ${have(issue.origin)}at most ${issue.maximum}${units[issue.origin] ?? ''}`;
    case 'invalid_value':
      return `must be ${issue.values.length === 1 ? '' : 'one of '}${issue.values.map(String).join(', ')}`;
    case 'invalid_format':
      return issue.format === 'guid' || issue.format === 'uuid' ? 'must be an id (UUID)' : undefined;
    case 'invalid_union':
      return 'has none of the forms that are taken here';
    case 'invalid_key':
      return 'has a name that is not taken here';
    default:
      return undefined;
  }
}

const have = (origin: string): string => (origin in units ? 'have ' : 'be ');
