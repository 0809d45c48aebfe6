/** What nodes that have a change can say against it. */
export const rolloutSignals = ['record', 'proxy', 'difference', 'addresses', 'answers'] as const
export type RolloutSignal = (typeof rolloutSignals)[number]
