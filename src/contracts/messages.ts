/** Query that every workflow answers with its progress. */
export const stageQueryName = 'stage';
