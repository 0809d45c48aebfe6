/** 50 % to 150 % of the time, so that nodes that started together spread out. */
export const jittered = (ms: number): number => Math.round(ms * (0.5 + Math.random()))
