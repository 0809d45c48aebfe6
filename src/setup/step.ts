/** One part of an installation. */
export type Step = {
  /** For the plan and the report. */
  readonly what: string
  /** Must not fail because an earlier step has not run: a plan runs none of them. */
  readonly isDone: () => boolean | Promise<boolean>
  readonly run: () => void | Promise<void>
}

/** One line for each step, printed when it is done. A step that fails ends it. */
export async function perform(steps: readonly Step[], isPlan: boolean): Promise<void> {
  for (const { what, isDone, run } of steps) {
    const wasDone = await isDone()
    if (!wasDone && !isPlan) await run()
    console.log(`${wasDone ? 'exists ' : isPlan ? 'missing' : 'made   '}  ${what}`)
  }
}
