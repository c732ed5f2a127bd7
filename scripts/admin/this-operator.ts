import { randomUUID } from 'node:crypto';
import { userInfo } from 'node:os';
import type { Operator } from '#src/modules/operator/operator.service.ts';

/** Who runs this command, for the audit log. */
export function thisOperator(): Operator {
  return { name: process.env.SUDO_USER || accountName(), requestId: `admin-${randomUUID()}` };
}

/** On the machine. Containers often run as a uid that no account there has. */
export function accountName(read: () => { username: string } = userInfo): string {
  try {
    return read().username;
  } catch {
    return `uid ${process.getuid?.()}`;
  }
}
