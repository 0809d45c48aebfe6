/** Between half and one and a half times as long, so that many nodes that began together do not stay together. */
export const jittered = (ms: number): number => Math.round(ms * (0.5 + Math.random()))
