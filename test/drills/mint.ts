// Tries to get a key that can do more than the one in use, in 1,000 random ways. `-- 5000` for another number.
import { startControlPlane } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { tryToMint } from '../scopes/mint.ts'

const attempts = Number(process.argv[2] ?? 1_000)
await drill(async (scope) => {
  await tryToMint(await startControlPlane(scope), attempts)
  console.log(`${attempts} attempts to get more than a key has: all refused`)
  return true
})
