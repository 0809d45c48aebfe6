// `npm run drill -- one-meaning <spellings>`: hundreds of spellings of restricted paths, sent to eleven kinds of servers
// from a refused address: none reaches a restricted handler. Uses Debian's `php-cli`, `nginx-light`, `apache2-bin` and
// `python3-flask` if they are installed. Requests use HTTP/1.1 and HTTP/2.
import { drill } from '../harness/drill.ts'
import {
  allowed,
  attackingPaths,
  fits,
  type Layout,
  ordinary,
  refused,
  type Sent,
  startAttack,
} from '../hostile/readers/attack.ts'
import { type Reader, startExpress, startFastify, startLenient, startNode } from '../hostile/readers/node.ts'
import { programs, startProgram } from '../hostile/readers/programs.ts'

const most = Number(process.argv[2] ?? 400)
const isRestricted = ({ reached }: Sent, layout: Layout, path: string): boolean =>
  reached === 'ADMIN' || reached === 'EXACT' || (layout === 'above' && reached !== '' && !path.startsWith('/public'))

await drill(async (scope) => {
  const readers: Reader[] = [
    await startNode(scope),
    await startLenient(scope),
    await startExpress(scope, 4),
    await startExpress(scope, 5),
    await startFastify(scope, false),
    await startFastify(scope, true),
  ]
  for (const program of programs) {
    if (program.isInstalled()) readers.push(await startProgram(scope, program))
    else console.log(`${program.name} is missing: apt-get install ${program.package}`)
  }
  const { send } = await startAttack(scope, readers)

  const problems: string[] = []
  for (const reader of readers) {
    for (const [path, handler] of [
      ['/admin/keys', 'ADMIN'],
      ['/exact', 'EXACT'],
      ['/', 'open'],
    ] as const) {
      const { reached } = await send(reader, path, { from: allowed })
      if (reached !== handler) problems.push(`${reader.name}: ${path} from an allowed address reached '${reached}'`)
    }
    for (const path of ordinary) {
      const { decided } = await send(reader, path, { from: refused })
      if (decided === '403')
        problems.push(`${reader.name}: ${path} is open to everybody, and was answered with ${decided}`)
    }
  }

  const paths = attackingPaths(most)
  const width = Math.max(...paths.map(({ path }) => path.length)) + 2
  const head = (text: string) => text.slice(0, 10).padEnd(11)
  console.log(`${'from a refused address'.padEnd(width)}${readers.map(({ name }) => head(name)).join('')}`)
  const decisions = new Map<string, number>()
  let sent = 0
  for (const { layout, path } of paths) {
    const cells: string[] = []
    for (const reader of readers) {
      const answers: string[] = []
      for (const version of ['HTTP/1.1', 'HTTP/2'] as const) {
        if (!fits(version, path)) continue
        const answer = await send(reader, path, { from: refused, layout, version })
        sent++
        decisions.set(answer.decided, (decisions.get(answer.decided) ?? 0) + 1)
        answers.push(`${answer.decided} ${answer.reached}`.trim())
        if (isRestricted(answer, layout, path))
          problems.push(`${reader.name}: ${path} reached ${answer.reached} over ${version}`)
      }
      cells.push(head([...new Set(answers)].join('/')))
    }
    console.log(`${path.padEnd(width)}${cells.join('')}`)
  }
  for (const problem of problems) console.log(problem)
  const counts = [...decisions].sort().map(([decided, times]) => `${times} × ${decided}`)
  console.log(
    `${paths.length} spellings × ${readers.length} servers, ${sent} requests from a refused address: ${counts.join(', ')}; ` +
      `${problems.length} problems`,
  )
  return problems.length === 0
})
