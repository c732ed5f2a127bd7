/** Turns texts into unit vectors of one model. */
export type Embedder = {
  readonly model: string;
  /**
   * One vector for each text, in order. A text beyond the model's window is embedded in windows and pooled by the
   * server. Throws `model_unavailable` (retry), `model_response_invalid`, `model_rejected`, `model_not_configured`.
   */
  embed(texts: readonly string[], options?: { signal?: AbortSignal }): Promise<Float32Array[]>;
};
