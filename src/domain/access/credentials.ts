export type PasswordFault = 'length' | 'uppercase' | 'lowercase' | 'digit' | 'special';

const minPasswordLength = 10;
const maxPasswordLength = 128;

export function passwordFaults(password: string): PasswordFault[] {
  const length = [...password].length;
  const holds: Record<PasswordFault, boolean> = {
    length: length >= minPasswordLength && length <= maxPasswordLength,
    uppercase: /\p{Lu}/u.test(password),
    lowercase: /\p{Ll}/u.test(password),
    digit: /\p{Nd}/u.test(password),
    special: /[^\p{L}\p{N}]/u.test(password),
  };
  const faults: PasswordFault[] = ['length', 'uppercase', 'lowercase', 'digit', 'special'];
  return faults.filter((fault) => !holds[fault]);
}

const minMaskedLength = 16;

export function maskSecret(secret: string): string {
  return secret.length < minMaskedLength ? '****' : `${secret.slice(0, 2)}****${secret.slice(-4)}`;
}
