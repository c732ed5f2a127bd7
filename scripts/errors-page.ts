import { listErrorCatalogue } from '#src/errors.ts';

const INTRODUCTION = `# Error codes

Made from \`src/errors.ts\` by \`npm run docs\`; do not edit by hand.

Every error answer is \`application/problem+json\` (RFC 9457) with \`type\`, \`title\`, \`status\`, \`detail\`, \`instance\`, the stable \`code\`, the \`request_id\`, and for wrong fields \`errors\`, a list of \`{path, message, code}\`. The same codes appear in jobs and in the Temporal UI.

The class says what background work does with an error: \`permanent\` fails at once, \`transient\` is retried with growing pauses for about a day, and \`operator\`, or what has lasted that long, waits until an operator acts (see operators.md).

| Code | Status | Class | Meaning |
|---|---|---|---|
`;

export function errorsPage(): string {
  const rows = listErrorCatalogue().map(
    (error) => `| \`${error.code}\` | ${error.status} | ${error.class} | ${error.title} |`,
  );
  return `${INTRODUCTION}${rows.join('\n')}\n`;
}
