import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ControlPlane } from './control_plane.ts'

/** Call it last in a file: nothing that the tests sent may have caused a 5xx or an error in the log. */
export function nothingWasADefect(plane: ControlPlane): void {
  test('the service logged no defect and is still running', async () => {
    const { processes } = plane
    for (const { child, log, origin } of processes) {
      assert.equal((await fetch(`${origin}/healthz`)).status, 200)
      assert.equal(child.exitCode, null)
      assert.deepEqual(
        log.filter(({ level, status }) => level === 'error' || level === 'fatal' || Number(status) >= 500),
        [],
      )
    }
  })
}
