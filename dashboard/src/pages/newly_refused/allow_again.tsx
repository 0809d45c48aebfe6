import type { Shapes } from '../../api/client.ts'
import { useRefresh } from '../../api/queries.ts'
import { AllowNow } from '../check/allow_now.tsx'
import type { Names } from '../traffic/names.ts'

type Refused = Shapes['NewlyRefusedAddress']
type Props = { refused: Refused; names: Names; onClose: () => void }

function questionOf({ ip, type, target }: Refused) {
  if (!target) return { ip, type }
  return target.id.startsWith('edgtcp_') ? { ip, edge_id: target.id } : { ip, route_id: target.id }
}

export function AllowAgain({ refused, names, onClose }: Props) {
  const refresh = useRefresh()
  const close = () => {
    onClose()
    void refresh('/newly_refused_addresses')
  }
  return (
    <AllowNow
      question={questionOf(refused)}
      names={names}
      from="Was let in before"
      allowedMeanwhile="The rules have changed meanwhile: the address is let in."
      onClose={close}
    />
  )
}
