/** What the command ends with, for scripts. docs/cli.md has the same table, and a test compares them. */
export const exits = {
  ok: { code: 0, means: 'done' },
  unexpected: { code: 1, means: 'a defect of the command itself' },
  usage: { code: 2, means: 'it was called wrongly, or does not know where to connect: nothing was sent' },
  refused: {
    code: 3,
    means: 'the service, or the reader of the state file, refused the input (400, 409, 412, 413, 415)',
  },
  notAllowed: { code: 4, means: 'not authenticated, or not allowed (401, 403)' },
  notFound: { code: 5, means: 'there is no such thing (404)' },
  unreachable: { code: 6, means: 'the service did not answer, or could not (5xx, 429): try again later' },
  notApplied: { code: 7, means: 'the change was made, but is not in force on every live edge node yet' },
  different: { code: 8, means: 'state diff found a difference' },
} as const

export type ExitName = keyof typeof exits

/** The end of the command, told to the person who typed it. `hints` are lines that say what to do. */
export class Failure extends Error {
  override readonly name = 'Failure'
  readonly exit: ExitName
  readonly hints: readonly string[]

  constructor(exit: ExitName, message: string, hints: readonly string[] = [], options?: ErrorOptions) {
    super(message, options)
    this.exit = exit
    this.hints = hints
  }
}

export const usageFailure = (message: string, ...hints: string[]): Failure => new Failure('usage', message, hints)

const exitOfStatus: Record<number, ExitName> = {
  401: 'notAllowed',
  403: 'notAllowed',
  404: 'notFound',
  408: 'unreachable',
  429: 'unreachable',
}

export const exitOf = (status: number): ExitName => exitOfStatus[status] ?? (status >= 500 ? 'unreachable' : 'refused')
