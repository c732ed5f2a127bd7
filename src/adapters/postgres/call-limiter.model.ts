import { model } from './base-model.ts';
import { integer, text, timestamp, uuid } from './columns.ts';

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
