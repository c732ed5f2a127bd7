/** Turns texts into unit vectors of one model. */
export type Embedder = {
  /** The id under which vectors are kept: vectors of different ids never meet. */
  readonly model: string;
  /**
   * One vector for each text, in order, in as many calls as the service needs. A text beyond the model's window is
   * embedded in pieces and pooled. Throws `model_unavailable` (retry), `model_response_invalid`, `model_rejected`,
   * `model_not_configured`; then no call of it is under way any more.
   */
  embed(texts: readonly string[], options?: EmbedOptions): Promise<Float32Array[]>;
};

/** The embedders of a provider, by the ids under which vectors are kept. One of an unknown model fails when it is used. */
export type Embedders = { of(model: string): Embedder };

export type EmbedOptions = {
  signal?: AbortSignal;
  /**
   * Work that nobody waits for takes its turn, and waits a bounded time when the service wants to be left alone. For
   * a person a busy service fails at once.
   */
  isBulk?: boolean;
  /** Gets the vectors of each call as soon as they are there, by indexes of `texts`; what it throws ends the work. */
  onVectors?: (vectors: readonly { index: number; vector: Float32Array }[]) => Promise<void>;
};
