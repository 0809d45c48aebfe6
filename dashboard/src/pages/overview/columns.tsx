import { LastChanges } from './changes.tsx'
import { InForce } from './in_force.tsx'
import { Nodes } from './nodes.tsx'
import { RefusedAddresses } from './refused_addresses.tsx'

/** The foot of the overview. */
export const Columns = ({ isAdmin }: { isAdmin: boolean }) => (
  <div className="cols">
    {isAdmin && <RefusedAddresses />}
    <InForce isWide={!isAdmin} />
    {isAdmin && (
      <>
        <Nodes />
        <LastChanges />
      </>
    )}
  </div>
)
