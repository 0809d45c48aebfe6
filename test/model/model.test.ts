import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startControlPlane } from '../harness/control_plane.ts'
import { nothingWasADefect } from '../harness/defects.ts'
import { sized } from '../harness/thorough.ts'
import { runSequences } from './sequences.ts'

const plane = await startControlPlane({ after }, { env: { GATEHOUSE_TCP_PORTS: '20000-65535' } })

// `npm run drill -- model` does 10,000.
const sequences = sized(80, 200)
test(`${sequences} random sequences of up to 50 operations: the API does what the model says`, async (t) => {
  const { calls, answers } = await runSequences(plane, sequences)
  t.diagnostic(`${calls} calls: ${JSON.stringify(answers)}`)
  // A model that is hardly ever asked shows little.
  for (const answer of [
    'POST 201',
    'GET 200',
    'PATCH 200',
    'PUT 200',
    'DELETE 204',
    'ERR_NOT_FOUND',
    'ERR_INVALID_FIELD',
  ])
    assert.ok((answers[answer] ?? 0) > 3, answer)
})

nothingWasADefect(plane)
