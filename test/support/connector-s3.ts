/** Hosts that `EGRESS_ALLOW` must list to reach the S3 server. Empty in the everyday run, which starts none. */
export function s3Hosts(): string[] {
  const url = process.env.TEST_S3_URL;
  return url ? [new URL(url).host] : [];
}
