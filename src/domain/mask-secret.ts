/** Below this, what is shown would be too much of it. */
const longEnough = 16;

/** The first two and the last four characters of a secret, or none of a short one. */
export function maskSecret(secret: string): string {
  return secret.length < longEnough ? '****' : `${secret.slice(0, 2)}****${secret.slice(-4)}`;
}
