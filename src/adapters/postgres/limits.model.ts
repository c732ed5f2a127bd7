import { model } from './base-model.ts';
import { bytea, integer, text, timestamp, uuid } from './shapes.ts';

export class ModelCallModel extends model('model_calls', {
  id: uuid(),
  orgId: uuid(),
  model: text(),
  expiresAt: timestamp(),
}) {}

export class ModelPauseModel extends model(
  'model_pauses',
  {
    model: text(),
    notBefore: timestamp(),
    width: integer(),
  },
  'model',
) {}

export class RateLimitModel extends model(
  'rate_limits',
  {
    name: text(),
    subject: bytea(),
    used: integer(),
    endsAt: timestamp(),
  },
  ['name', 'subject'],
) {}
