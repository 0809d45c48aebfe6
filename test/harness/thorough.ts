export const isThorough = Boolean(process.env.GATEHOUSE_TEST_THOROUGH)

/**
 * How many or how large: the usual size shows that it works, in as little time as possible. `npm run test:thorough` uses
 * the large one, for races that are rarely lost and for limits.
 */
export const sized = (usual: number, thorough: number): number => (isThorough ? thorough : usual)

/** For the title of a test: 100,000. */
export const printed = (count: number): string => count.toLocaleString('en-US')
