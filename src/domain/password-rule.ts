export type PasswordFault = 'length' | 'uppercase' | 'lowercase' | 'digit' | 'special';

const minLength = 10;
const maxLength = 128;

/** What a password lacks: 10 to 128 characters with an upper and a lower case letter, a digit and a special one. */
export function passwordFaults(password: string): PasswordFault[] {
  const length = [...password].length;
  const holds: Record<PasswordFault, boolean> = {
    length: length >= minLength && length <= maxLength,
    uppercase: /\p{Lu}/u.test(password),
    lowercase: /\p{Ll}/u.test(password),
    digit: /\p{Nd}/u.test(password),
    special: /[^\p{L}\p{N}]/u.test(password),
  };
  const faults: PasswordFault[] = ['length', 'uppercase', 'lowercase', 'digit', 'special'];
  return faults.filter((fault) => !holds[fault]);
}
