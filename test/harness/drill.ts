import type { Scope } from './control_plane.ts'

/** A drill is a program: it prints its figures, and its exit code says whether what it drills held. */
export async function drill(work: (scope: Scope) => Promise<boolean>): Promise<void> {
  const cleanUps: (() => Promise<void>)[] = []
  try {
    process.exitCode = (await work({ after: (cleanUp) => cleanUps.push(cleanUp) })) ? 0 : 1
  } finally {
    for (const cleanUp of cleanUps.reverse()) await cleanUp()
  }
}
