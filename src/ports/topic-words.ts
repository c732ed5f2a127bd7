export type TopicWord = { word: string; vector: Float32Array };

/** Words of general English that an agent may be about, in the space of one embedding model. */
export type TopicWords = {
  /**
   * Those with the largest `relevance`, which gets the unit vector of a word, best first. Throws where there are none
   * for the model.
   */
  nearest(relevance: (vector: Float32Array) => number, limit: number): Promise<TopicWord[]>;
};
