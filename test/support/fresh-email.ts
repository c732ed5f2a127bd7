import { randomUUID } from 'node:crypto';

/** An address that nobody has registered. */
export function freshEmail(name = 'user'): string {
  return `${name}-${randomUUID()}@example.com`;
}
