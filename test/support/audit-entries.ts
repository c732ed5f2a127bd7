import type { Stack } from './stack.ts';

type AuditRow = { actorId: string; action: string; target: string; detail: Record<string, unknown> };

/** What is recorded of acts on a user, a team or an organization, oldest first. */
export async function auditEntries({ container }: Stack, target: string): Promise<AuditRow[]> {
  return container.db('auditLog').where({ target }).orderBy('id').select('actorId', 'action', 'target', 'detail');
}
