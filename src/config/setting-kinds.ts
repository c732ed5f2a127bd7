import { isIP, isIPv4 } from 'node:net';
import { z } from 'zod';
import { taskQueues } from '../contracts/workflow-runs.ts';
import type { ConcurrencyLimit, RateLimit, TierLimits } from '../domain/access/limits.ts';
import { type ErrorCode, isErrorCode } from '../errors.ts';
import { parseEncryptionKeys } from '../keys.ts';

export const portSchema = z.coerce.number().int().min(0).max(65_535);
export const secondsSchema = z.coerce.number().int().positive();
export const urlSchema = z.url({ protocol: /^https?$/, error: 'must be an http(s):// URL' });
// Forbids credentials and queries in URLs of services, because error messages quote these URLs and paths are appended
// to them.
export const urlWithoutCredentialsSchema = urlSchema.refine(
  (text) => !/[?#]|\/\/[^/]*@/.test(text),
  'must have no user, password, query or fragment; set keys by their own settings',
);
// Forbids line breaks in API keys: they make a header invalid, and the error about the header would quote the key.
export const apiKeySchema = z.string().regex(/^[\x21-\x7e]+$/, 'must be one word of visible ASCII characters');
export const modelPriceSchema = z.number().nonnegative();
export const jsonTextSchema = z.string().transform((text, context) => {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    context.addIssue({ code: 'custom', message: 'must be valid JSON' });
    return z.NEVER;
  }
});
export const commaSeparatedListSchema = z
  .string()
  .default('')
  .transform((text) =>
    text
      .split(',')
      .map((item) => item.trim())
      .filter(Boolean),
  );

const queueNames = Object.values(taskQueues);
export const taskQueuesSchema = commaSeparatedListSchema
  .pipe(z.array(z.enum(queueNames, `must be names of task queues: ${queueNames.join(', ')}`)))
  // An empty list means all task queues: a worker that polls no queue would look healthy and do nothing.
  .transform((names) => (names.length === 0 ? queueNames : [...new Set(names)]));

// Stores an origin as browsers send it: scheme, host, and the port unless it is the default.
export const webOriginSchema = urlSchema
  .refine((text) => URL.parse(text)?.href === `${URL.parse(text)?.origin}/`, 'must be like https://app.example.com')
  .transform((text) => new URL(text).origin);

export const ocrLanguageSchema = z
  .string()
  .regex(/^[a-z]{3}(?:_[a-z]+)?$/i, 'must be language codes of Tesseract, like eng or chi_sim, separated by commas')
  .refine(hasOcrData, {
    error: ({ input }) =>
      `needs the package @tesseract.js-data/${input}: npm install --save-exact @tesseract.js-data/${input}`,
  });

export const hostAndPortSchema = z
  .string()
  .regex(/^(?:[\w.-]+|\[[\da-f:.]+\]):\d{1,5}$/i, 'must be host:port, separated by commas')
  .refine((text) => URL.canParse(`http://${text}`), 'must be host:port, separated by commas');

// Stores hosts in the form of `URL.host`, which omits default ports.
export const hostSchema = z
  .string()
  .regex(/^(?:[\w.-]+|\[[\da-f:.]+\])(?::\d{1,5})?$/i, 'must be host or host:port, separated by commas')
  .transform((text) => text.toLowerCase().replace(/:(?:80|443)$/, ''));

// Format of an injected fault: `activity:position:fault[:nth]`, where `fault` is `kill`, `hang`, `throw[:code]` or
// `delay:ms`.
const faultPattern =
  /^(?<activity>\w+):(?<position>\w+):(?:(?<plain>kill|hang)|(?<throw>throw)(?::(?<code>[a-z]\w*))?|(?<delay>delay):(?<delayMs>\d+))(?::(?<nth>\d+))?$/;
export const injectedFaultSchema = z
  .string()
  .transform((text) => {
    const { plain, throw: thrown, delay, ...others } = faultPattern.exec(text)?.groups ?? {};
    return { ...others, kind: plain ?? thrown ?? delay };
  })
  .pipe(
    z.object({
      activity: z.string('must be activity:position:fault[:nth]'),
      position: z.enum(
        ['before', 'after_effect', 'after_return'],
        'is not a position (before, after_effect, after_return)',
      ),
      kind: z.enum(['kill', 'throw', 'hang', 'delay']),
      code: z
        .custom<ErrorCode>((word) => typeof word === 'string' && isErrorCode(word), 'is not an error code')
        .default('service_unavailable'),
      delayMs: z.coerce.number().default(0),
      /** If `nth` is set, the fault is injected only into the nth execution of the activity in this process. */
      nth: z.coerce.number().positive().optional(),
    }),
  )
  .refine(({ position, kind }) => position !== 'after_return' || kind === 'kill', 'after_return only supports kill');

export type InjectedFault = z.infer<typeof injectedFaultSchema>;

export const rateLimitSchema = z
  .string()
  .regex(/^(off|[1-9]\d{0,6}\/[1-9]\d{0,6})$/, 'must be off or count/seconds, like 10/900')
  .transform((text): RateLimit | null => {
    if (text === 'off') return null;
    const [count = 0, seconds = 0] = text.split('/').map(Number);
    return { count, seconds };
  })
  .optional();

export const concurrencyLimitSchema = z
  .string()
  .regex(/^(off|[1-9]\d{0,6}\/[1-9]\d{0,6})$/, 'must be off or per-user/per-organization, like 100/500')
  .transform((text): ConcurrencyLimit | null => {
    if (text === 'off') return null;
    const [perUser = 0, perOrganization = 0] = text.split('/').map(Number);
    return { perUser, perOrganization };
  });

// Proxies whose `X-Forwarded-For` header is trusted: none, the last n, or those with the given addresses.
export const trustedProxiesSchema = z
  .string()
  .default('false')
  .transform((text, context): false | number | string[] => {
    if (/^(false|no|off|0)$/i.test(text)) return false;
    if (/^(true|yes|on)$/i.test(text)) return 1;
    if (/^[1-9]\d?$/.test(text)) return Number(text);
    const addresses = text.split(',').map((item) => item.trim());
    if (addresses.every(isNetwork)) return addresses;
    context.addIssue({
      code: 'custom',
      message: 'must be true, false, the number of trusted proxies, or their addresses',
    });
    return z.NEVER;
  });

const limit = z.exactOptional(z.int().nonnegative());
export const tierLimitsSchema = z.strictObject({
  members: limit,
  agents: limit,
  draftsPerUser: limit,
  versionsPerDraft: limit,
  documents: limit,
  fileSizeBytes: limit,
  storageBytes: limit,
  connections: limit,
  evaluationCasesPerDay: limit,
} satisfies Record<keyof TierLimits, z.ZodType>);

export const encryptionKeysSchema = z.string('is required').transform((text, context) => {
  try {
    return parseEncryptionKeys(text);
  } catch (error) {
    context.addIssue({ code: 'custom', message: error instanceof Error ? error.message : 'is invalid' });
    return z.NEVER;
  }
});

// Accepts the spellings of booleans that the Temporal CLI accepts.
export const booleanSchema = z
  .string()
  .regex(/^(true|yes|on|1|false|no|off|0)$/i, 'must be true or false')
  .transform((text) => /^(true|yes|on|1)$/i.test(text));

export const payloadEncryptionKeysSchema = z.string().transform((text, context) => {
  const [, off, keys = ''] = /^\s*(off\s*,)?(.*)$/s.exec(text) ?? [];
  try {
    const all = parseEncryptionKeys(keys);
    return { sealing: off === undefined ? (all[0] ?? null) : null, all };
  } catch (error) {
    context.addIssue({ code: 'custom', message: error instanceof Error ? error.message : 'is invalid' });
    return z.NEVER;
  }
});

function isNetwork(text: string): boolean {
  if (['loopback', 'linklocal', 'uniquelocal'].includes(text)) return true;
  const [address = '', prefix] = text.split('/');
  const bits = isIPv4(address) ? 32 : 128;
  return isIP(address) !== 0 && (prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= bits));
}

function hasOcrData(language: string): boolean {
  try {
    import.meta.resolve(`@tesseract.js-data/${language}/package.json`);
    return true;
  } catch {
    return false;
  }
}
