import { z } from 'zod';
import { findPasswordProblems, type PasswordProblem } from '#src/domain/access/credentials.ts';
import { allTools, unknownToolIds } from '#src/domain/agents/tools.ts';
import { isBlank, isOneLine } from '#src/domain/text/plain-text.ts';

// Rules for names are regular expressions that JSON Schema accepts too, so that clients can validate names.
const unseen = '\\u0000-\\u001f\\u007f-\\u009f\\u2028-\\u202e\\u2066-\\u2069';
const oneLinePattern = `^[^${unseen}]*$`;
export const namePattern = `^[^${unseen}]*[^${unseen}\\s][^${unseen}]*$`;
export const notBlankPattern = '\\S';

/** A UUID in lower case, as Postgres writes it, because ids are also compared as text. */
export const uuidField = z.guid().toLowerCase();

export const visibilityField = z.enum(['personal', 'team_level', 'org_level']).meta({ id: 'Visibility' });

export const tierField = z.enum(['free', 'pro', 'max']).meta({ id: 'Tier' });

/** Emails are lower-cased only after validation; otherwise the Kelvin sign (U+212A) would become a valid "k". */
export const emailField = z
  .string()
  .max(320)
  .trim()
  .pipe(z.email({ error: 'Not a valid email address' }).max(254).toLowerCase())
  .meta({
    description: 'An email address; surrounding spaces and case do not matter',
    pattern: z.regexes.email.source,
    maxLength: 254,
  });

const faultMessages: Record<PasswordProblem, string> = {
  length: 'A password has 10 to 128 characters',
  uppercase: 'A password needs an uppercase letter',
  lowercase: 'A password needs a lowercase letter',
  digit: 'A password needs a digit',
  special: 'A password needs a special character',
};

export const newPasswordField = z
  .string()
  .check((context) => {
    for (const fault of findPasswordProblems(context.value)) {
      const params = { code: `password_${fault}` };
      context.issues.push({ code: 'custom', input: context.value, message: faultMessages[fault], params });
    }
  })
  .meta({
    description: '10 to 128 characters with an uppercase and a lowercase letter, a digit and a special character',
    writeOnly: true,
    minLength: 10,
    maxLength: 128,
    pattern: '^(?=[\\s\\S]*\\p{Lu})(?=[\\s\\S]*\\p{Ll})(?=[\\s\\S]*\\p{Nd})(?=[\\s\\S]*[^\\p{L}\\p{N}])',
  });

export const oneLineField = (maxLength: number) =>
  z
    .string()
    .max(maxLength)
    .refine(isOneLine, 'must be one line without control characters')
    .meta({ pattern: oneLinePattern });

const nameText = oneLineField(200).transform((text) => (isBlank(text) ? '' : text.trim().normalize('NFC')));

export const optionalNameField = nameText.transform((name) => name || undefined).optional();

export const nameField = nameText
  .refine((name) => name !== '', { error: 'must not be blank', params: { code: 'blank' } })
  .meta({ pattern: namePattern });

export const nullableNameField = nameText.transform((name) => name || null);

const yes = ['true', 'yes', 'on', 'y', '1', 'enabled'];
const no = ['false', 'no', 'off', 'n', '0', 'disabled'];

/** Booleans in queries and forms are text, which OpenAPI describes as booleans: their text is `true` or `false`. */
export const booleanTextField = z.stringbool({ truthy: yes, falsy: no }).meta({ type: 'boolean' });

export const booleanField = z.union([z.boolean(), booleanTextField]);

/** Integers in queries and forms are text; `Number` alone would accept '0x10', ' 5 ' and ''. */
export function integerField(range: { min: number; max: number }) {
  const parse = (raw: unknown) => (typeof raw === 'string' && /^\d{1,15}$/.test(raw) ? Number(raw) : raw);
  const whole = z.int({ error: ({ code }) => (code === 'invalid_type' ? 'must be a whole number' : undefined) });
  return z.preprocess(parse, whole.min(range.min).max(range.max));
}

export const clearableTextField = <Word extends z.ZodType<string>>(word: Word) =>
  z
    .union([z.literal(''), word])
    .nullable()
    .transform((value) => value || null);

const hexColor = z.string().regex(/^#([0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})$/i, 'must be a hex colour');

const toolIdField = z.string().meta({ id: 'ToolId', enum: allTools.map(({ id }) => id) });

const toolsField = z.array(toolIdField).superRefine((ids, context) => {
  for (const id of unknownToolIds(ids)) context.addIssue({ code: 'custom', message: `unknown tool ${id}` });
});

export const tagField = oneLineField(64).trim().min(1).meta({ pattern: namePattern });

export const agentRequestFields = {
  agent_name: oneLineField(255).optional(),
  tags: z.array(tagField).max(50).optional(),
  color: clearableTextField(hexColor).optional(),
  icon_name: clearableTextField(oneLineField(100)).optional(),
  enabled_tools: toolsField.optional(),
};

/** Fields of answers about a published agent's anchor words. */
export const anchorFitFields = {
  anchor_fit: z
    .number()
    .min(0)
    .max(1)
    .nullable()
    .describe(
      'Share of texts that alignment takes for on topic: golden prompts, persona, sentences of documents. Tried at ' +
        'publication; null if there were fewer than five texts or the embedding model was unavailable.',
    ),
  helpful_anchor_words: z.array(z.string()).describe('Up to five anchor words that bring most texts on topic.'),
};

/** Query of the OAuth callback; not strict, because providers add parameters of their own. */
export const oauthCallbackQuery = z.looseObject({
  state: z.string().min(1).max(200),
  code: z.string().max(4_096).optional(),
  error: z.string().max(200).optional(),
  iss: z.string().max(500).optional(),
});

export const consentCodeSchema = z.strictObject({
  consent_code: z.string().describe('Send it to the endpoint that finishes the consent; works once, for the same user'),
});

export const finishConsentBody = z
  .strictObject({ consent_code: z.string().min(1).max(8_192).meta({ writeOnly: true }) })
  .transform((body) => ({ consentCode: body.consent_code }));
