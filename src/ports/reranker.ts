/** Judges how well texts answer a query, each beside the query and not by itself as an embedder does. */
export type Reranker = {
  /**
   * A score for each document, in their order; higher is better and only the order means something.
   * @param request.model null where the service has just one and gives it no name
   * Errors as in `Embedder`; a service without this endpoint gives `model_not_configured`.
   */
  rerank(request: {
    model: string | null;
    query: string;
    documents: readonly string[];
    signal: AbortSignal;
  }): Promise<number[]>;
};
