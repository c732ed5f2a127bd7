import type { IncomingMessage } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import type { RequestActor } from '#src/domain/visibility.ts';
import { readJsonBody } from './json-body.ts';
import type { Route } from './route.ts';
import { withoutSecrets } from './secret-fields.ts';
import { isForm, receiveForm } from './upload.ts';
import { validate } from './validate.ts';

/** A body that has arrived but is not checked yet. */
export type ReceivedBody = {
  /** What makes two requests the same: the fields as sent, without secrets, and a file by its content. */
  identity: () => unknown;
  /** Does the identity leave anything out? */
  hasSecrets: () => boolean;
  parse: () => unknown;
  /** Removes what was stored of a request that is refused. */
  discard: () => Promise<void>;
};

const nothingToDiscard = async () => {};

export async function receiveBody(
  route: Route,
  req: IncomingMessage,
  actor: RequestActor | undefined,
): Promise<ReceivedBody> {
  const spec = route.body;
  if (spec === undefined) return { ...identified(null, null), parse: () => undefined, discard: nothingToDiscard };
  if (!('kind' in spec) || (spec.kind !== 'multipart' && !isForm(req))) {
    const schema = 'kind' in spec ? spec.fields : spec;
    const json = await readJsonBody(req, route.bodyLimitBytes);
    return {
      ...identified(withoutSecrets(schema, json), json),
      parse: () => validate(schema, json),
      discard: nothingToDiscard,
    };
  }
  if (spec.kind === 'form_or_json') {
    const { fields } = await receiveForm(req, null);
    return {
      ...identified(withoutSecrets(spec.fields, fields), fields),
      parse: () => validate(spec.fields, fields),
      discard: nothingToDiscard,
    };
  }
  if (actor === undefined) throw new Error(`${route.operationId}: an upload needs a caller`);
  const { fields, file } = await receiveForm(req, {
    store: (upload) => spec.store(actor, upload),
    discard: (stored) => spec.discard(stored),
    isFileOptional: spec.kind === 'multipart_or_json',
  });
  return {
    ...identified(
      { ...Object(withoutSecrets(spec.fields, fields)), file: file?.sha256, fileName: file?.fileName },
      { ...fields, file: file?.sha256, fileName: file?.fileName },
    ),
    parse: () => ({ ...Object(validate(spec.fields, fields)), file }),
    discard: async () => {
      if (file !== undefined) await spec.discard(file);
    },
  };
}

function identified(identity: unknown, sent: unknown): Pick<ReceivedBody, 'identity' | 'hasSecrets'> {
  return { identity: () => identity, hasSecrets: () => !isDeepStrictEqual(identity, sent) };
}
