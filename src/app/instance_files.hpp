// The files of an instance that its two ends of SSH read.
#pragma once

#include "app/installation.hpp"
#include "instance/record.hpp"

namespace startrail::app {

// Folders, keys and the server's configuration, where they are missing; a second call changes nothing.
[[nodiscard]] Result<void> make_instance_files(const Installation& installation, const instance::Record& record);

// instances/ssh_config: a Host block for each instance that has an SSH server.
[[nodiscard]] Result<void> write_client_configuration(const Installation& installation);

}  // namespace startrail::app
