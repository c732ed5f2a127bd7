import type { Knex } from 'knex';
import { DBError, Model, type Pojo, QueryBuilder } from 'objection';
import type { ColumnDefinitions, SqlRow } from './shapes.ts';

/** Throws pg's errors instead of objection's wrappers, because `errors.ts` reads the codes of pg. */
class BaseQueryBuilder<M extends Model, R = M[]> extends QueryBuilder<M, R> {
  override async execute(): Promise<R> {
    try {
      return await super.execute();
    } catch (error) {
      throw error instanceof DBError ? error.nativeError : error;
    }
  }
}

export class BaseModel extends Model {
  static override QueryBuilder = BaseQueryBuilder;

  static columns: ColumnDefinitions;

  static cloneObjectAttributes = false;

  /**
   * A knex query typed by the columns. Use it to select some columns, and for `onConflict(…).ignore()` with
   * `returning`: objection would type all columns, and return ignored rows as if they were inserted. Do not write jsonb
   * columns with it: knex would turn JSON arrays into Postgres arrays.
   */
  static table<M extends { tableName: string; columns: ColumnDefinitions }>(this: M, db: Knex) {
    // biome-ignore lint/complexity/noThisInStatic: `this` is the model class
    return db<SqlRow<M>>(this.tableName);
  }

  override $validate(json: Pojo = this): Pojo {
    return json;
  }
}

/** Removes undefined properties from a patch, because objection's types do not accept them. */
export function withoutUndefinedFields<Change extends object>(change: Change) {
  const entries = Object.entries(change).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [Name in keyof Change]?: Exclude<Change[Name], undefined> };
}

type ModelOf<C extends ColumnDefinitions> = Omit<typeof BaseModel, 'prototype' | 'columns'> & {
  new (): BaseModel & SqlRow<{ columns: C }>;
  columns: C;
};

/** Creates the base class of a model: `class DraftModel extends tableModel('drafts', { id: uuidColumn(), … }) {}`. */
export function tableModel<const C extends ColumnDefinitions>(
  tableName: string,
  columns: C,
  idColumns: (keyof C & string) | (keyof C & string)[] = 'id',
): ModelOf<C> {
  const base: unknown = class extends BaseModel {
    static override tableName = tableName;
    static override idColumn = idColumns;
    static override columns = columns;
    static override jsonAttributes = Object.keys(columns).filter((name) => columns[name]?.type === 'jsonb');
  };
  return base as ModelOf<C>;
}
