/** Exit codes, for scripts. docs/reference/cli.md has the same table, and a test compares them. */
export const exits = {
  ok: { code: 0, means: 'done' },
  unexpected: { code: 1, means: 'a bug in the command itself' },
  usage: { code: 2, means: 'wrong usage, or no server configured; nothing was sent' },
  refused: {
    code: 3,
    means: 'the service or the state file parser refused the input (400, 409, 412, 413, 415)',
  },
  notAllowed: { code: 4, means: 'not authenticated or not allowed (401, 403)' },
  notFound: { code: 5, means: 'not found (404)' },
  unreachable: {
    code: 6,
    means: 'the service did not respond, was unavailable (5xx, 429), or something else answered in its place',
  },
  notApplied: { code: 7, means: 'the change was made, but not every live edge node has applied it yet' },
  different: { code: 8, means: 'state diff or upgrade check found a difference' },
  unhealthy: { code: 9, means: 'status found something wrong or unknown' },
  tooFewNodes: { code: 10, means: 'the change was made, but no edge node is live, or fewer than --min-nodes' },
  waiting: {
    code: 11,
    means: 'nothing was changed: the change waits as a change set for the approval of another admin',
  },
  halted: { code: 12, means: 'the rollout that was watched is halted, and no node has its changes' },
} as const

export type ExitName = keyof typeof exits

/** Ends the command with an exit code and a message. `hints` are lines that say what to do. */
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
