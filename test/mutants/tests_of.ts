import type { ImportGraph } from '../harness/imports.ts'
import { isFast } from '../harness/near.ts'

type Room = {
  wantedPercent: number
  /** Besides the tests beside the code that start no server: those whose path begins with one of these. */
  tests?: readonly string[]
  /** Folders that are not mutated. */
  except?: readonly string[]
}

/** The folders that decide about requests, or carry decisions to the nodes. */
export const rooms: Record<string, Room> = {
  'src/kernel/ip': {
    wantedPercent: 90,
    tests: [
      'src/agent/upstreams/policy',
      'src/agent/expiry',
      'src/access/rule_slots',
      'src/identity/grant',
      'src/distribution/rule_list',
    ],
  },
  'src/identity': { wantedPercent: 90, tests: ['src/identity/'] },
  'src/access': {
    wantedPercent: 90,
    tests: [
      'src/access/',
      'src/resources/access_tests/routes',
      'src/resources/ip_checks/routes',
      'src/resources/ip_impact/routes',
      'src/resources/ip_policy_rules/rule_set',
      'src/resources/ip_restrictions/routes',
      'test/access_tests/both_ways',
      'test/deciders',
      'test/specification/ip_',
    ],
  },
  'src/operations': { wantedPercent: 80, tests: ['test/specification', 'src/resources/change_sets/'] },
  'src/agent': { wantedPercent: 80, except: ['src/agent/haproxy'], tests: ['test/simulation'] },
  'src/publisher': { wantedPercent: 80, tests: ['test/simulation'] },
}

export function testsOf(folder: string, graph: ImportGraph): string[] {
  const { tests = [] } = roomOf(folder)
  const isUnit = ([file]: [string, readonly string[]]) => file.startsWith(`${folder}/`) && isFast(file, graph)
  const isChosen = ([file]: [string, readonly string[]]) => tests.some((begin) => file.startsWith(begin))
  const all = [...graph].filter(([file]) => file.endsWith('.test.ts'))
  return [...new Set([...all.filter(isUnit), ...all.filter(isChosen)].map(([file]) => file))]
}

/** That of the folder, or of the one that it is in. */
export const roomOf = (folder: string): Room =>
  Object.entries(rooms).find(([room]) => `${folder}/`.startsWith(`${room}/`))?.[1] ?? { wantedPercent: 80 }
