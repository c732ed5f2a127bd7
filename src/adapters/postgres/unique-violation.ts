/** Is this the refusal of a unique index? Its transaction can only be rolled back. */
export function isUniqueViolation(error: unknown, index: string): boolean {
  if (!(error instanceof Error) || !('code' in error) || !('constraint' in error)) return false;
  return error.code === '23505' && error.constraint === index;
}
