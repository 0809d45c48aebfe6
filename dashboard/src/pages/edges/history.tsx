import { Choice } from '../../ui/choice.tsx'
import { useUrlState } from '../../ui/use_url_state.ts'
import { ChangeList } from '../audit/list.tsx'

type Props = { edgeId: string; routes: readonly { id: string; match: string }[] }

/** Changes of the edge or of one of its routes, which are separate resources. */
export function EdgeHistory({ edgeId, routes }: Props) {
  const [wanted, setWanted] = useUrlState<string>('of', edgeId)
  const isKnown = wanted === edgeId || routes.some(({ id }) => id === wanted)
  const shown = isKnown ? wanted : edgeId
  return (
    <>
      {routes.length > 0 && (
        <div className="bar filters">
          <Choice
            label="Changes of"
            value={shown}
            onChange={setWanted}
            options={[
              { value: edgeId, label: 'The edge' },
              ...routes.map(({ id, match }) => ({ value: id, label: `Route ${match}` })),
            ]}
          />
        </div>
      )}
      <ChangeList key={shown} resourceId={shown} />
    </>
  )
}
