import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ControlPlane } from './control_plane.ts'
import { isDefect, type SharedControlPlane } from './shared_control_plane.ts'

/** Call it last in a file: nothing that the tests sent may have caused a 5xx or an error in the log. */
export function nothingWasADefect(plane: Pick<ControlPlane, 'processes'> | SharedControlPlane): void {
  test('the service logged no defect and is still running', async () => {
    for (const { origin } of plane.processes) assert.equal((await fetch(`${origin}/healthz`)).status, 200)
    if ('defects' in plane) return assert.deepEqual(plane.defects(), [])
    for (const { child, log } of plane.processes) {
      assert.equal(child.exitCode, null)
      assert.deepEqual(log.filter(isDefect), [])
    }
  })
}
