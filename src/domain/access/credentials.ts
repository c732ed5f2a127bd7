export type PasswordProblem = 'length' | 'uppercase' | 'lowercase' | 'digit' | 'special';

const minPasswordLength = 10;
const maxPasswordLength = 128;

export function findPasswordProblems(password: string): PasswordProblem[] {
  const length = [...password].length;
  const holds: Record<PasswordProblem, boolean> = {
    length: length >= minPasswordLength && length <= maxPasswordLength,
    uppercase: /\p{Lu}/u.test(password),
    lowercase: /\p{Ll}/u.test(password),
    digit: /\p{Nd}/u.test(password),
    special: /[^\p{L}\p{N}]/u.test(password),
  };
  const faults: PasswordProblem[] = ['length', 'uppercase', 'lowercase', 'digit', 'special'];
  return faults.filter((fault) => !holds[fault]);
}

const minMaskedLength = 16;

export function maskSecret(secret: string): string {
  return secret.length < minMaskedLength ? '****' : `${secret.slice(0, 2)}****${secret.slice(-4)}`;
}
