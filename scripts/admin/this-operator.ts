import { randomUUID } from 'node:crypto';
import { userInfo } from 'node:os';
import type { Operator } from '#src/modules/operator/operator.service.ts';

/** Who runs this command, for the audit log. */
export function thisOperator(): Operator {
  return { name: process.env.SUDO_USER || userInfo().username, requestId: `admin-${randomUUID()}` };
}
