import { useMemo } from 'react'
import { Link, useParams } from 'react-router'
import { $api } from '../api/client.ts'
import { usePeople } from '../api/people.ts'
import { Button } from '../ui/button.tsx'
import { DataTable } from '../ui/data_table.tsx'
import { Skeleton } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { ProblemNote } from '../ui/problem.tsx'
import { Empty } from '../ui/states.tsx'
import type { Column } from '../ui/table_model.ts'
import { Ago } from '../ui/time.tsx'
import { useUrlState } from '../ui/use_url_state.ts'
import { RolloutDetail } from './rollouts/detail.tsx'
import {
  authorOf,
  counted,
  placeOf,
  type Rollout,
  type State,
  StateOf,
  titleOf,
  useNames,
  withNames,
  wordOf,
} from './rollouts/words.tsx'
import '../styles/rollouts.css'

export function Rollouts() {
  const { id } = useParams()
  return id ? <RolloutDetail key={id} id={id} /> : <RolloutList />
}

const filters: readonly State[] = ['halted', 'watching', 'waiting', 'releasing', 'released']
const isOpen = ({ state }: Rollout): boolean => state !== 'released'

function RolloutList() {
  const [wanted, setWanted] = useUrlState<string>('state', '')
  const state = filters.find((each) => each === wanted)
  const found = $api.useInfiniteQuery(
    'get',
    '/rollouts',
    { params: { query: { limit: 50, ...(state && { state }) } } },
    {
      pageParamName: 'before_id',
      initialPageParam: null,
      getNextPageParam: ({ next_page_uri: next }) => (next ? new URL(next).searchParams.get('before_id') : undefined),
      refetchInterval: ({ state: { data } }) =>
        data?.pages.some(({ rollouts }) => rollouts.some(isOpen)) ? 5_000 : 15_000,
    },
  )
  const rows = useMemo(() => found.data?.pages.flatMap(({ rollouts }) => rollouts), [found.data])
  const nameOf = useNames()
  const people = usePeople()
  const columns = useMemo(() => columnsOf(nameOf, people), [nameOf, people])
  return (
    <>
      <PageHeader title="Rollouts" summary={!state && rows && summaryOf(rows)} />
      <fieldset className="chips">
        <legend className="for-readers">State</legend>
        {['', ...filters].map((value) => (
          <button
            key={value}
            type="button"
            className="chip"
            aria-pressed={(state ?? '') === value}
            onClick={() => setWanted(value)}
          >
            {value === '' ? 'All' : wordOf(value as State)}
          </button>
        ))}
      </fieldset>
      {found.isError && <ProblemNote error={found.error} retry={() => found.refetch()} />}
      {found.isPending && <Skeleton lines={4} />}
      {rows?.length === 0 && (
        <div className="frame">
          {state ? (
            <Empty title={`No rollout is ${wordOf(state).toLowerCase()}`} />
          ) : (
            <Empty title="No rollouts yet">
              Where the operator has put nodes into waves, a change reaches the first wave, is watched there, and then
              goes on. Each is listed here. With one wave, every node gets a change at once.
            </Empty>
          )}
        </div>
      )}
      {rows && rows.length > 0 && (
        <DataTable
          label="Rollouts"
          rows={rows}
          keyOf={({ id }) => id}
          columns={columns}
          isTwoLine
          foot={
            found.hasNextPage && (
              <Button isPending={found.isFetchingNextPage} onPress={() => found.fetchNextPage()}>
                Show older rollouts
              </Button>
            )
          }
        />
      )}
    </>
  )
}

function summaryOf(rows: readonly Rollout[]): string {
  const halted = rows.filter(({ state }) => state === 'halted').length
  const running = rows.filter(isOpen).length - halted
  if (halted + running === 0) return rows.length === 0 ? '' : 'No change is on its way: every wave has all of these.'
  const parts = [
    ...(halted > 0 ? [`${counted(halted, 'rollout is', 'rollouts are')} halted`] : []),
    ...(running > 0 ? [`${counted(running, 'rollout is', 'rollouts are')} on the way`] : []),
  ]
  return `${parts.join(', ')}.`
}

const columnsOf = (nameOf: ReturnType<typeof useNames>, people: ReturnType<typeof usePeople>): Column<Rollout>[] => [
  {
    title: 'What',
    className: 'a1',
    width: '38%',
    isRowHead: true,
    cell: (rollout) => (
      <span className="two">
        <Link className="row-link" to={`/rollouts/${rollout.id}`}>
          {titleOf(rollout, nameOf)}
        </Link>
        <small className="status-reason">
          {rollout.state === 'halted' ? withNames(rollout.reason ?? 'No reason was given', nameOf) : rollout.id}
        </small>
      </span>
    ),
  },
  {
    title: 'State',
    className: 'a2',
    cell: (rollout) => <StateOf state={rollout.state} />,
  },
  { title: 'Cell', className: 'hide-small fit', cell: ({ cell }) => cell },
  { title: 'Wave', className: 'b1 fit', cell: placeOf },
  {
    title: 'By',
    className: 'hide-small fit',
    cell: (rollout) => authorOf(rollout, people),
  },
  { title: 'Since', className: 'b2 fit', cell: ({ created_at }) => <Ago at={created_at} /> },
]
