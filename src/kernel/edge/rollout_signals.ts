/** Faults that nodes can report against a change. */
export const rolloutSignals = ['record', 'proxy', 'difference', 'addresses', 'answers'] as const
export type RolloutSignal = (typeof rolloutSignals)[number]
