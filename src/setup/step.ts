/** One part of an installation. */
export type Step = {
  /** Shown in the plan and the report. */
  readonly what: string
  /** Must not fail if earlier steps have not run, because a plan runs none of them. */
  readonly isDone: () => boolean | Promise<boolean>
  readonly run: () => void | Promise<void>
}

/** Prints one line for each completed step. Ends at the first step that fails. */
export async function perform(steps: readonly Step[], isPlan: boolean): Promise<void> {
  for (const { what, isDone, run } of steps) {
    const wasDone = await isDone()
    if (!wasDone && !isPlan) await run()
    console.log(`${wasDone ? 'exists ' : isPlan ? 'missing' : 'made   '}  ${what}`)
  }
}
